"""Observing computations: anomaly detection, recording, drawing, time and memory."""

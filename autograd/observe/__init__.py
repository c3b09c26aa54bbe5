"""Observing computations: anomaly detection, recording, drawing, and a comparison of attention methods."""

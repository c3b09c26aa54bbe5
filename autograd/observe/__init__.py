"""What looks on: anomalies, recordings, drawings, and the methods of attention compared."""

"""Encoders of texts that run elsewhere: asked over HTTP, and what they answered kept for the next training."""

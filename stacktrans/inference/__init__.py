"""Inference with trained models: answers, accuracy, perplexity, traces and verification."""

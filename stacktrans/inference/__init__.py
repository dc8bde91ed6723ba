"""What a trained model does: answers, accuracy, perplexity and traces."""

"""The Python front door: models, runs and tasks, as `import stacktrans` has them."""

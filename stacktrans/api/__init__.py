"""The Python API that `stacktrans` exports: training runs, trained models and tasks."""

"""Display: tables, progress, plots and pages."""

"""Display of results, traces and machines: in a terminal, as plots, HTML and JSON."""

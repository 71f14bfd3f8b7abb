"""Side-by-side runs against peers, and the figures the project promises: `python -m benchmarks` lists them."""

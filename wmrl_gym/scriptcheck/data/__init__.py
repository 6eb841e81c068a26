"""What pandas, NumPy and Pillow do to tables, arrays and images."""

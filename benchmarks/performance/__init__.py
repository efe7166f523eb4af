"""Time, memory and growth of scans, and of the commands around them."""

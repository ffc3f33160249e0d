"""What a study takes, told before it starts: bytes to fetch, disk, memory, operations and time of each chapter."""

"""What a certificate proves besides the gap: where the optimum is, and what follows from that."""

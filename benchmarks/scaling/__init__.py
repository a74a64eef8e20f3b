"""How the cost of a step grows with what is fed into it and with what is built."""

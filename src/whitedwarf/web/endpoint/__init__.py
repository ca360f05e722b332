"""What all who ask a server over HTTP share: its address, the key, what its refusals say, and when to ask again."""

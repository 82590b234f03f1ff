"""What a silent chip's registers and memory say: decoded, tied to the source, told to people."""

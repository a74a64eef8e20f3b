"""`mta build`: eight steps from an empty file to a GPT of one's own."""

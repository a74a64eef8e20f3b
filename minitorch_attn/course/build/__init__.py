"""`mta build`: the learner writes a GPT from an empty file, in eight checked steps."""

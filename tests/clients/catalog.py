"""The models of the demo that the tests ask for, by the format that serves them.

The names are the specification's. Written down here and not read from the gateway, so that a
model that went missing is noticed.
"""

RECOMMENDED = {"alpha-sonnet-5", "alpha-opus-5-5", "beta-5.6-terra", "gamma-4.5"}

MESSAGES = ["alpha-sonnet-5", "alpha-opus-5-5", "alpha-haiku-4-5", "alpha-fable-5-1"]
RESPONSES = ["beta-5.6-terra", "beta-5.4-mini", "epsilon-auto-review"]
CHAT = ["beta-5.6-terra", "beta-4o", "gamma-4.5", "gamma-3-mini", "delta3.7-max"]

# Older names that are still accepted.
DOTTED = {"alpha-opus-4.8": "alpha-opus-4-8"}

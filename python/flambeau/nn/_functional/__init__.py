"""The bodies behind flambeau.nn.functional."""

"""The overnight experiment, simulated: twelve pipelines on one machine under three policies."""

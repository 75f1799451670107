"""The same steps on a virtual machine and clock, with faults drawn from a seed."""

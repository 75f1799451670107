"""What the tests share: fleets, ledgers, servers and builders."""

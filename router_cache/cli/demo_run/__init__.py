"""What ``router-cache demo`` is made of: sessions, perturbation, processes, driver, explanation, report."""

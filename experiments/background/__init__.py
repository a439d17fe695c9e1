"""The parts of experiments/campaign.py.

Each uses those before it only: places, lock, worktrees, runs, queue, archives, weights, loop, pilots.
"""

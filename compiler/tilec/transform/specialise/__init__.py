"""Warp specialisation on Hopper: a warp that only copies runs ahead of the warps that compute.

``plan`` finds the pipelined loops whose copies the copy engine can do, ``rings`` holds their stages and barriers, ``producer`` makes the
code of the copying warp, ``consumer`` that of the others, and ``schedule`` says when a matrix operation is waited for.
"""

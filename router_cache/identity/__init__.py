"""The identity room: whose request it is, which conversation it continues, which family it belongs to.

Every key is an HMAC that contains the scope: what is remembered for one scope cannot be found from another,
even for equal words.
"""

"""``tilelang.layout``: every name is one of the language's layouts."""

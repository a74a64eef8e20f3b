"""(in work)"""

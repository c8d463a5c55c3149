"""What travels over the API: request bodies and answers, one module per resource.

Types, and how rows become them where more than one route shows the same thing. No routes and no database:
what a body asks for is checked and done by the module of the same name in `api`.
"""

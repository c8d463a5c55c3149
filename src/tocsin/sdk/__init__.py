"""What users import: tasks and their worker, and the client. It needs the pure part of the domain and an HTTP
client, and nothing of the server."""

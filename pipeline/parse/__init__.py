"""Raw rows to requests: shapes told apart, bodies validated and rebuilt as the server does."""

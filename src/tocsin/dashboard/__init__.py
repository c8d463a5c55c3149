"""What browsers see: the shell of the dashboard and its built files. The pages themselves are in `web/` and
know only `/v1`."""

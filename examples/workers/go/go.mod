module tocsin.example/worker

go 1.22

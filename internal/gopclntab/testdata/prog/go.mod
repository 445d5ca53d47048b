module prog

go 1.18

module clearseal.example/go

go 1.26

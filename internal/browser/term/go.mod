module github.com/moby/term

go 1.26.0

module github.com/plimsoll-dev/plimsoll

go 1.26

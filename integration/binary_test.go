package integration

func removeBinary() {}

package workbench

// Online is online for the tests of commands, which import this package.
var Online = online

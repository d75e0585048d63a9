package words

// word is a word or phrase that is not written here, and what to write instead.
type word struct{ text, instead string }

// identifiers are words of names in Go files.
var identifiers = []word{
	{"told", "say what was received: reported, notified"},
	{"said", "say what it is: message, reason, answer"},
	{"whose", "owner"},
	{"kilns", "isKilnObject, ownObjects"},
	{"equip", "say what is created: createDevices"},
	{"bring", "fetch, create, restore"},
	{"room", "package, capacity, free places"},
	{"seeing", "observation, observed"},
	{"mute", "say what is disabled: withoutEvents"},
	{"unread", "ignored, notSupported"},
	{"nobodys", "unowned, orphaned"},
}

// verb is a name only of functions that it must not be.
var verb = word{"part", "say what is split or compared: splitName, comparePart"}

// phrases stand in comments, strings and pages.
var phrases = []word{
	{"that of", "repeat the noun: 'the name of the VM', not 'that of the VM'"},
	{"those of", "repeat the noun"},
	{"who asks", "the caller, the user of the request"},
	{"what it is of", "name the noun: 'the kind of the object'"},
	{"of now", "current"},
	{"but for", "except"},
	{"does so", "repeat the verb"},
	{"so does", "repeat the verb: 'X reads it, too'"},
	{"is none", "does not exist; is not a ..."},
	{"whoever", "name the actor: a user who, a process that"},
}

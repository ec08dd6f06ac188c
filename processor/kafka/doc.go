// Package kafka is what the processor has to know of Kafka, whatever it does with it: which brokers answer at all, what an error of theirs
// asks for, where logs begin and end, and the options without which a client would do something else than it is taken to do.
//
// Every client of the process is made with Options, behind ListenTo. A request whose repetition could do harm is sent by hand, once, and
// its error sorted by VerdictOf: ErrUnanswered means that it may have been carried out, and nothing may rest on that it was not.
//
// Functions keep nothing and may be called from every goroutine. What is kept has a type: which broker coordinates (Coordinator), whether brokers
// were heard of late (Hearing), whether they tell where epochs end (Epochs), why a partition is not read (Unread). Nothing here knows of wheels, of pending
// records or of lanes: what it learns it returns, and its callers decide.
//
// Offsets are Kafka's. Protocol rules are named by their KIP where they are followed.
package kafka

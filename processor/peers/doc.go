// Package peers has the replicas of a group watch each other, so that what one of them had need not wait until its session has ended.
//
// Each replica answers with its Presence, an http.Handler, and says in the group where that is (assignor.View). A Watch holds a connection to each
// of the next few replicas, in the order of their names, so each is watched by as many. What comes on it is the replica's name, a beat four
// times a second, and a last word when the replica stops in order. A replica that ends otherwise is looked for at once:
//
//   - Nothing listens there any more, or another replica does: it has ended. The members that it has left in the group are taken out.
//   - Nothing comes, and no new connection brings anything, for 3 s: its machine is gone, or it is frozen, or the way to it is cut. In exactly_once
//     it is taken out, too, since a replica that has been given up is fenced, whatever it believes. In at_least_once, where it would go on for a while,
//     its session decides, unless its process ends meanwhile.
//
// Nothing of it counts before the group has answered this process, and a silence only if this process ran meanwhile, since one that was itself cut off or
// frozen hears nothing of anyone. Nor does a silence count where none of several replicas is heard any more.
//
// One that was never heard is not judged, so where replicas cannot reach each other the session decides, as without this package. One that was taken out for
// its silence and is heard again is not judged by that any more, nor one that was taken out for its end by its end, so that two that are at odds do not go on
// taking each other out.
//
// Presence may be used by every goroutine; a Watch runs on one, and has one for each replica that it watches.
package peers

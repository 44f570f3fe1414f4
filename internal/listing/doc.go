// Package listing reads long lists from the table a page at a time.
//
// # Words
//
//   - A step is a part of a list: one item, or what one query of the table or of
//     an index finds.
//   - A cursor says in which step a list goes on, and behind which item. It is
//     opaque to callers, and comes back from them: one that leads elsewhere is
//     refused.
//   - A row of an index stands for an item, which is then read from the table.
//
// # A page
//
//	steps     [ item ] [ query GSI4 #0 ] [ query GSI4 #1 ] …
//	                         ▲
//	cursor    {step 1, behind AAAAAAAAAAA/RESOURCE#gpt-4 #CONFIG}
//
//	next, err := listing.Page(ctx, client, "tidegate", steps, listing.Request{Cursor: cursor, Limit: 100},
//		func(item table.Item) (int, error) { … keep it, and say how large it is in the reply … })
//
// A page ends when it holds as many entries as asked for, when it is as large
// as a reply may be, or when it took much work; it then has a cursor, and may be
// empty. What is there all the while is in the list once.
package listing

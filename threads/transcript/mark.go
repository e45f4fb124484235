package transcript

// WriterMark stands in the prompt of every checkpoint writer and nowhere else. A
// request that is not a writer's and holds it has taken in a prompt as if it were
// history.
const WriterMark = "[plimsoll checkpoint writer]"

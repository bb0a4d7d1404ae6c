/**
 * Marks the places of a text below an element, now and as the element changes, without touching its nodes;
 * returns what ends that. Browsers without highlights show none.
 */
export function markHits(root: HTMLElement, query: string): () => void {
  if (!('highlights' in CSS)) return () => undefined
  let isPlanned = false
  const mark = () => {
    isPlanned = false
    CSS.highlights.set('hits', new Highlight(...findRanges(root, query.toLowerCase())))
  }
  const observer = new MutationObserver(() => {
    if (!isPlanned) requestAnimationFrame(mark)
    isPlanned = true
  })
  observer.observe(root, { childList: true, subtree: true })
  mark()
  return () => {
    observer.disconnect()
    CSS.highlights.delete('hits')
  }
}

function findRanges(root: HTMLElement, needle: string): Range[] {
  const ranges: Range[] = []
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT)
  for (let node = walker.nextNode(); node !== null && ranges.length < 2_000; node = walker.nextNode()) {
    const text = node.nodeValue ?? ''
    const folded = text.toLowerCase()
    // Folding changes the length of a few letters; such a text has no marks.
    if (folded.length !== text.length) continue
    for (let at = folded.indexOf(needle); at !== -1; at = folded.indexOf(needle, at + needle.length)) {
      const range = document.createRange()
      range.setStart(node, at)
      range.setEnd(node, at + needle.length)
      ranges.push(range)
    }
  }
  return ranges
}

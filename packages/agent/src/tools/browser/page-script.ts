/**
 * The script that runs inside a page: a Playwright selector engine in an isolated world, which the page's
 * JavaScript cannot affect. Most selectors return an element outside of the document whose text carries the
 * result as JSON.
 */

/** An interactive element, for the model. Empty members are omitted. */
export interface PageElement {
  index: number
  readonly tag: string
  readonly role?: string
  readonly type?: string
  readonly text?: string
  /** From aria-label, label, alternative text or title. */
  readonly label?: string
  /** Its `name` attribute. */
  readonly name?: string
  readonly value?: string
  readonly placeholder?: string
  readonly href?: string
  readonly checked?: boolean
  readonly expanded?: boolean
  readonly disabled?: true
  /** It accepts text. */
  readonly editable?: true
  readonly options?: readonly string[]
  /** It is outside of the viewport. */
  readonly out_of_view?: true
  /** URL of its frame, unless that is the main frame. */
  frame?: string
}

/** Pixels of the page above and below the viewport. */
export interface ScrollPosition {
  readonly above: number
  readonly below: number
}

export interface FrameState {
  readonly elements: readonly PageElement[]
  /** Number of omitted elements. */
  readonly more: number
  readonly scroll: ScrollPosition
}

/** Each document has its own engine. */
function createEngine() {
  let lastState: { readonly id: string; readonly elements: Element[]; readonly answer: Element } | undefined
  let lastScroll: { readonly id: string; readonly answer: Element } | undefined

  function runSelector(selector: string): Element[] {
    const [verb, id = '', option = ''] = selector.split(' ')
    if (verb === 'state') {
      if (lastState?.id !== id) lastState = { id, ...collectState(Number(option)) }
      return [lastState.answer]
    }
    if (verb === 'element' || verb === 'link') {
      const element = lastState?.id === id ? lastState.elements[Number(option)] : undefined
      if (!element?.isConnected) return []
      return [
        verb === 'element'
          ? element
          : carrierElement(element instanceof HTMLAnchorElement ? element.href : ''),
      ]
    }
    if (verb === 'scroll') {
      // Playwright may evaluate a selector more than once.
      if (lastScroll?.id !== id) lastScroll = { id, answer: carrierElement(scroll(option === 'up' ? -1 : 1)) }
      return [lastScroll.answer]
    }
    return verb === 'text' ? [carrierElement({ text: markdown(id === 'links') })] : []
  }

  return {
    query: (_root: unknown, selector: string): Element | undefined => runSelector(selector)[0],
    queryAll: (_root: unknown, selector: string): Element[] => runSelector(selector),
  }
}

function carrierElement(value: unknown): Element {
  const element = document.createElement('pre')
  element.textContent = JSON.stringify(value)
  return element
}

/** All elements in document order; those of open shadow roots follow their host. */
function* walkElements(): Generator<Element> {
  const walkers = [document.createTreeWalker(document, NodeFilter.SHOW_ELEMENT)]
  for (let remaining = 300_000; remaining > 0 && walkers.length > 0; remaining--) {
    const walker = walkers[walkers.length - 1]
    const node = walker?.nextNode()
    if (!(node instanceof Element)) {
      walkers.pop()
      continue
    }
    yield node
    if (node.shadowRoot !== null)
      walkers.push(document.createTreeWalker(node.shadowRoot, NodeFilter.SHOW_ELEMENT))
  }
}

function collectState(maxChars: number): { elements: Element[]; answer: Element } {
  const all: Element[] = []
  let pointers = 20_000
  for (const element of walkElements()) {
    const takesPart = isInteractive(element) || (pointers-- > 0 && looksClickable(element))
    if (takesPart && isVisible(element)) all.push(element)
  }
  const chosen = chooseElements(all, maxChars)
  const state: FrameState = {
    elements: chosen.map(({ description }, index) => ({ ...description, index })),
    more: all.length - chosen.length,
    scroll: readScrollPosition(scrollContainer()),
  }
  return { elements: chosen.map(({ element }) => element), answer: carrierElement(state) }
}

/** Elements in the viewport first, then the others, up to the limit; returned in document order. */
function chooseElements(all: readonly Element[], remainingChars: number) {
  const entries = all.map((element, order) => ({ element, order, inView: isInView(element) }))
  entries.sort((a, b) => Number(b.inView) - Number(a.inView) || a.order - b.order)
  const chosen: { order: number; element: Element; description: PageElement }[] = []
  for (const { element, order, inView } of entries) {
    const description = describe(element, inView)
    remainingChars -= JSON.stringify(description).length + 2
    if (remainingChars < 0) break
    chosen.push({ order, element, description })
  }
  return chosen.sort((a, b) => a.order - b.order)
}

function isInteractive(element: Element): boolean {
  const tag = element.localName
  if (tag === 'input') return element.getAttribute('type') !== 'hidden'
  if (tag === 'a' || tag === 'area') return element.hasAttribute('href')
  if (['button', 'select', 'textarea', 'summary'].includes(tag)) return true
  if ((tag === 'audio' || tag === 'video') && element.hasAttribute('controls')) return true
  const role = element.getAttribute('role') ?? ''
  if (
    /^(button|link|checkbox|radio|switch|tab|option|menuitem.*|combobox|textbox|searchbox|slider|spinbutton|treeitem)$/.test(
      role,
    )
  )
    return true
  if (element.hasAttribute('onclick')) return true
  if (element instanceof HTMLElement && element.isContentEditable)
    return element.parentElement?.isContentEditable !== true
  return element instanceof HTMLElement && element.hasAttribute('tabindex') && element.tabIndex >= 0
}

/** It has a pointer cursor and its parent has not: probably a click listener. */
function looksClickable(element: Element): boolean {
  if (getComputedStyle(element).cursor !== 'pointer' || element.parentElement === null) return false
  return getComputedStyle(element.parentElement).cursor !== 'pointer'
}

function isVisible(element: Element): boolean {
  if (!element.checkVisibility({ visibilityProperty: true })) return false
  for (const { width, height, right, bottom } of element.getClientRects()) {
    if (width > 0 && height > 0 && right + scrollX > 0 && bottom + scrollY > 0) return true
  }
  return false
}

function isInView(element: Element): boolean {
  const { top, bottom, left, right } = element.getBoundingClientRect()
  return bottom > 0 && right > 0 && top < innerHeight && left < innerWidth
}

function describe(element: Element, inView: boolean): PageElement {
  const short = (value: string | null | undefined, max = 120) =>
    (value ?? '')
      .slice(0, 4 * max)
      .replace(/\s+/g, ' ')
      .trim()
      .slice(0, max)
  const visibleText = element instanceof HTMLElement ? element.innerText : element.textContent
  const text = /^(input|select|textarea)$/.test(element.localName) ? '' : short(visibleText)
  const label = short(elementLabel(element))
  const description = {
    tag: element.localName,
    role: short(element.getAttribute('role'), 30),
    type: short(element.getAttribute('type'), 30),
    text,
    label: label === text ? '' : label,
    name: short(element.getAttribute('name'), 60),
    placeholder: short(element.getAttribute('placeholder')),
    href: element instanceof HTMLAnchorElement ? short(element.href, 300) : '',
    value: short(displayedValue(element), 200),
    ...flags(element),
    ...(inView ? {} : { out_of_view: true as const }),
  }
  const entries = Object.entries(description).filter(([, value]) => value !== '' && value !== undefined)
  return { index: 0, tag: element.localName, ...Object.fromEntries(entries) }
}

function flags(element: Element): Record<string, unknown> {
  const input = element instanceof HTMLInputElement ? element : undefined
  const isBox = input !== undefined && ['checkbox', 'radio'].includes(input.type)
  const expanded = element.getAttribute('aria-expanded')
  const isEditable =
    element instanceof HTMLTextAreaElement ||
    (element instanceof HTMLElement && element.isContentEditable) ||
    (input !== undefined &&
      !/^(checkbox|radio|button|submit|reset|image|file|range|color|hidden)$/.test(input.type))
  return {
    ...(isBox ? { checked: input.checked } : {}),
    ...(expanded === null ? {} : { expanded: expanded === 'true' }),
    ...(element.matches(':disabled, [aria-disabled="true"]') ? { disabled: true } : {}),
    ...(isEditable ? { editable: true } : {}),
    ...(element instanceof HTMLSelectElement ? { options: selectOptions(element) } : {}),
  }
}

function selectOptions(select: HTMLSelectElement): string[] {
  return [...select.options].slice(0, 30).map(({ label }) => label.slice(0, 80))
}

function elementLabel(element: Element): string {
  const ariaLabel = element.getAttribute('aria-label')
  if (ariaLabel) return ariaLabel
  const root = element.getRootNode()
  const ids = (element.getAttribute('aria-labelledby') ?? '').split(/\s+/).filter((id) => id !== '')
  const referred = ids.map((id) =>
    root instanceof Document || root instanceof ShadowRoot
      ? (root.getElementById(id)?.textContent ?? '')
      : '',
  )
  if (referred.some((text) => text !== '')) return referred.join(' ')
  const labels =
    element instanceof HTMLInputElement ||
    element instanceof HTMLSelectElement ||
    element instanceof HTMLTextAreaElement
      ? element.labels
      : null
  if (labels !== null && labels.length > 0) return [...labels].map((label) => label.innerText).join(' ')
  const picture = element.localName === 'img' ? element : element.querySelector('img[alt], svg[aria-label]')
  const alt = picture?.getAttribute('alt') ?? picture?.getAttribute('aria-label')
  return alt || (element.getAttribute('title') ?? '')
}

function displayedValue(element: Element): string {
  if (element instanceof HTMLSelectElement) return element.selectedOptions.item(0)?.label ?? ''
  if (element instanceof HTMLTextAreaElement) return element.value
  if (!(element instanceof HTMLInputElement)) return ''
  if (element.type === 'password') return element.value === '' ? '' : '***'
  return ['checkbox', 'radio'].includes(element.type) ? '' : element.value
}

/** The scrolling element: the page, or else its largest scrollable part. */
function scrollContainer(): Element {
  const page = document.scrollingElement ?? document.documentElement
  if (page.scrollHeight > page.clientHeight + 1) return page
  let best = page
  let size = 0
  for (const element of walkElements()) {
    const area = element.clientWidth * element.clientHeight
    if (area <= size || element.scrollHeight <= element.clientHeight + 1) continue
    if (!/auto|scroll/.test(getComputedStyle(element).overflowY)) continue
    best = element
    size = area
  }
  return best
}

function readScrollPosition(element: Element): { above: number; below: number } {
  const above = Math.round(element.scrollTop)
  return { above, below: Math.max(0, Math.round(element.scrollHeight - element.clientHeight - above)) }
}

function scroll(direction: 1 | -1): { above: number; below: number } {
  const element = scrollContainer()
  element.scrollBy({ top: direction * element.clientHeight * 0.9, behavior: 'instant' })
  return readScrollPosition(element)
}

/** The text of the main part of the page as Markdown, at most five million characters. */
function markdown(withLinks: boolean): string {
  type Item = Node | string
  const main = document.querySelector('main, [role="main"]')
  const start = main !== null && (main.textContent ?? '').length >= 200 ? main : document.body
  const pending: Item[] = start === null ? [] : [start]
  const pieces: string[] = []
  for (let size = 0; size < 5_000_000; ) {
    const item = pending.pop()
    if (item === undefined) break
    if (item instanceof Element) {
      for (const part of markdownParts(item, withLinks).reverse()) pending.push(part)
      continue
    }
    const piece = typeof item === 'string' ? item : plainText(item, (pieces.at(-1) ?? '\n').endsWith('\n'))
    if (piece !== '') pieces.push(piece)
    size += piece.length
  }
  return pieces
    .join('')
    .replace(/[ \t]+(?=\n)/g, '')
    .replace(/\n{3,}/g, '\n\n')
    .trim()
}

function plainText(node: Node, isLineStart: boolean): string {
  if (!(node instanceof Text)) return ''
  if (node.parentElement?.closest('pre')) return node.data
  const text = node.data.replace(/\s+/g, ' ')
  return isLineStart ? text.trimStart() : text
}

/** The text before an element's children, the children, and the text after them. */
function markdownParts(element: Element, withLinks: boolean): (Node | string)[] {
  const tag = element.localName
  if (/^(script|style|noscript|template|svg|canvas|select|iframe|object|head|input|textarea)$/.test(tag))
    return []
  if (tag === 'br') return ['\n']
  if (tag === 'hr') return ['\n\n---\n\n']
  if (tag === 'img') return element.getAttribute('alt') ? [`![${element.getAttribute('alt')}]`] : []
  if (
    !element.checkVisibility({ visibilityProperty: true }) &&
    getComputedStyle(element).display !== 'contents'
  )
    return []
  const children =
    element instanceof HTMLSlotElement && element.assignedNodes().length > 0
      ? element.assignedNodes()
      : [...(element.shadowRoot ?? element).childNodes]
  const [before, after] = markdownMarks(element, tag, withLinks)
  return [before, ...children, after]
}

function markdownMarks(element: Element, tag: string, withLinks: boolean): [string, string] {
  if (/^h[1-6]$/.test(tag)) return [`\n\n${'#'.repeat(Number(tag[1]))} `, '\n\n']
  if (tag === 'li') return ['\n- ', '']
  if (tag === 'pre') return ['\n\n```\n', '\n```\n\n']
  if (tag === 'tr') return ['\n| ', '']
  if (tag === 'td' || tag === 'th') return ['', ' | ']
  if (tag === 'a' && withLinks && element instanceof HTMLAnchorElement && element.href !== '')
    return ['[', `](${element.href.slice(0, 2000)})`]
  const { display } = getComputedStyle(element)
  const isBlock = !/^(inline|contents|none|ruby|table-(cell|row|row-group|header-group|footer-group))/.test(
    display,
  )
  return tag === 'p' ? ['\n\n', '\n\n'] : isBlock ? ['\n', '\n'] : ['', '']
}

/** Sent as text with the engine, so they may use only the DOM and each other. */
const helpers = [
  carrierElement,
  walkElements,
  collectState,
  chooseElements,
  isInteractive,
  looksClickable,
  isVisible,
  isInView,
  describe,
  flags,
  selectOptions,
  elementLabel,
  displayedValue,
  scrollContainer,
  readScrollPosition,
  scroll,
  markdown,
  plainText,
  markdownParts,
  markdownMarks,
]

/** The engine's source, an expression. */
export const pageScript = `(() => {\n${helpers.join('\n')}\nreturn (${createEngine})()\n})()`

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseRawPage } from './raw-page.ts'

test('items come out as they were written, whatever is in them', () => {
  const anyItem = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue())
  const space = fc.constantFrom(0, 1, 3)
  fc.assert(
    fc.property(
      fc.array(fc.tuple(anyItem, space)),
      fc.option(fc.string()),
      fc.boolean(),
      (items, next, isFirst) => {
        const texts = items.map(([item, indent]) => JSON.stringify(item, undefined, indent))
        const members = [`"items":[${texts.join(', ')}]`, ` "next_page_id" : ${JSON.stringify(next)}`]
        const page = parseRawPage(`{${(isFirst ? members : members.reverse()).join(',')}}`)
        expect(page).toEqual({ items: texts, next_page_id: next })
      },
    ),
  )
})

test('a name inside an item is not mistaken for the name of the page', () => {
  const item = '{"items":[1,2],"next_page_id":"x","a":"\\"]}\\\\"}'
  expect(parseRawPage(`{"items":[${item}],"next_page_id":null}`)).toEqual({
    items: [item],
    next_page_id: null,
  })
})

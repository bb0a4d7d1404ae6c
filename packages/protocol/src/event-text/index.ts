export * from './event-facts.ts'
export { eventMarkdown, fence, toMarkdown } from './to-markdown.ts'

import * as z from 'zod'

/** There where a file of the server's operator sets what is shown. */
export const readOnlyFile = z.string().optional().meta({
  description: 'The file on the machine of the server that sets this, which cannot be changed here.',
})

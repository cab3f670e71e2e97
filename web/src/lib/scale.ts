/** How much larger the page is drawn than on a desk: the root's font grows with the screen (`app.css`). */
export const pageScale = (): number => parseFloat(getComputedStyle(document.documentElement).fontSize) / 15;

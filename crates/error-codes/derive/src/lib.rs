//! `#[derive(Coded)]`; see the crate `error-codes`.

#![forbid(unsafe_code)]

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Data, DeriveInput, Error, Fields, LitStr, Result, Token, Variant};

/// Derives `error_codes::Coded`; see the crate `error-codes` for its attributes.
#[proc_macro_derive(Coded, attributes(coded))]
pub fn coded(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand(&syn::parse_macro_input!(input as DeriveInput))
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

/// Content of `#[coded(…)]` on one variant, or on a struct.
enum Coding {
    /// `"CODE", remedy = "What to do."`
    Own { code: LitStr, remedy: LitStr },
    /// Delegates to the only field.
    Transparent,
    /// `from = field`: delegates to this field.
    From(syn::Ident),
}

impl Parse for Coding {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(syn::Ident) {
            if input.peek2(Token![=]) {
                expect_word(input, "from")?;
                input.parse::<Token![=]>()?;
                return Ok(Self::From(input.parse()?));
            }
            expect_word(input, "transparent")?;
            return Ok(Self::Transparent);
        }
        let code: LitStr = input.parse()?;
        let shouted = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        if code.value().is_empty() || !code.value().bytes().all(shouted) {
            return Err(Error::new(
                code.span(),
                "a code has capital letters, digits and underscores",
            ));
        }
        input.parse::<Token![,]>()?;
        expect_word(input, "remedy")?;
        input.parse::<Token![=]>()?;
        let remedy: LitStr = input.parse()?;
        input.parse::<Option<Token![,]>>()?;
        if !remedy.value().ends_with('.') {
            return Err(Error::new(remedy.span(), "a remedy is a whole sentence"));
        }
        Ok(Self::Own { code, remedy })
    }
}

fn expect_word(input: ParseStream<'_>, expected: &str) -> Result<()> {
    let word: syn::Ident = input.parse()?;
    if word == expected {
        Ok(())
    } else {
        Err(Error::new(word.span(), format!("expected `{expected}`")))
    }
}

/// Content of `#[coded(…)]` on an enum.
#[derive(Default)]
struct Options {
    all: bool,
    message: bool,
    borrowed: bool,
}

impl Options {
    fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut options = Self::default();
        for attribute in attributes.iter().filter(|a| a.path().is_ident("coded")) {
            attribute.parse_nested_meta(|meta| {
                let option = if meta.path.is_ident("all") {
                    &mut options.all
                } else if meta.path.is_ident("message") {
                    &mut options.message
                } else if meta.path.is_ident("borrowed") {
                    &mut options.borrowed
                } else {
                    return Err(meta.error("expected `all`, `message` or `borrowed`"));
                };
                *option = true;
                Ok(())
            })?;
        }
        Ok(options)
    }
}

/// One variant, or a struct, with its pattern and coding.
struct Arm {
    pattern: TokenStream,
    coding: Coding,
    message: String,
}

fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let (options, arms) = match &input.data {
        Data::Enum(data) => (
            Options::read(&input.attrs)?,
            data.variants
                .iter()
                .map(arm_of_variant)
                .collect::<Result<Vec<_>>>()?,
        ),
        Data::Struct(_) => {
            let coding = coding(&input.attrs, input)?;
            if !matches!(coding, Coding::Own { .. }) {
                return Err(Error::new_spanned(input, "a struct has a code"));
            }
            let arm = Arm {
                pattern: quote!(Self { .. }),
                coding,
                message: message(&input.attrs),
            };
            (Options::default(), vec![arm])
        }
        Data::Union(_) => return Err(Error::new_spanned(input, "a union cannot be an error")),
    };
    let name = &input.ident;
    let (implementation, types, clause) = input.generics.split_for_impl();
    let (inner_code, inner_remedy, lifetime) = if options.borrowed {
        let (code, remedy) = (
            quote!(::error_codes::Coded::code),
            quote!(::error_codes::Coded::remedy),
        );
        (quote!(#code(inner)), quote!(#remedy(inner)), None)
    } else {
        (
            quote!(inner.code()),
            quote!(inner.remedy()),
            Some(quote!('static)),
        )
    };
    let (code, remedy) = bodies(&arms, &inner_code, &inner_remedy);
    // A call of another type's method is not constant.
    let constant = arms
        .iter()
        .all(|arm| matches!(arm.coding, Coding::Own { .. }))
        .then(|| quote!(const));
    let all = options.all.then(|| {
        let variants = arms.iter().map(|arm| &arm.pattern);
        quote! {
            /// Every variant.
            pub const ALL: &'static [Self] = &[#(#variants),*];
        }
    });
    let message = options.message.then(|| {
        let arms = arms.iter().map(
            |Arm {
                 pattern, message, ..
             }| quote!(#pattern => #message),
        );
        quote! {
            /// The outcome in one sentence without its full stop.
            pub const fn message(&self) -> &'static str { match self { #(#arms,)* } }
        }
    });
    Ok(quote! {
        #[automatically_derived]
        impl #implementation #name #types #clause {
            #all

            /// The stable code.
            pub #constant fn code(&self) -> &#lifetime str { #code }

            /// The next step for the reader.
            pub #constant fn remedy(&self) -> &#lifetime str { #remedy }

            #message
        }

        #[automatically_derived]
        impl #implementation ::error_codes::Coded for #name #types #clause {
            fn code(&self) -> &str { Self::code(self) }
            fn remedy(&self) -> &str { Self::remedy(self) }
        }
    })
}

/// Bodies of `code` and `remedy`; a transparent variant's field is named `inner`.
fn bodies(arms: &[Arm], code: &TokenStream, remedy: &TokenStream) -> (TokenStream, TokenStream) {
    let (codes, remedies): (Vec<_>, Vec<_>) = arms
        .iter()
        .map(|arm| {
            let pattern = &arm.pattern;
            match &arm.coding {
                Coding::Own { code, remedy } => {
                    (quote!(#pattern => #code), quote!(#pattern => #remedy))
                }
                Coding::Transparent | Coding::From(_) => {
                    (quote!(#pattern => #code), quote!(#pattern => #remedy))
                }
            }
        })
        .unzip();
    (
        quote!(match self { #(#codes,)* }),
        quote!(match self { #(#remedies,)* }),
    )
}

fn arm_of_variant(variant: &Variant) -> Result<Arm> {
    let (name, coding) = (&variant.ident, coding(&variant.attrs, variant)?);
    let pattern = match (&coding, &variant.fields) {
        (Coding::Own { .. }, Fields::Unit) => quote!(Self::#name),
        (Coding::Own { .. }, _) => quote!(Self::#name { .. }),
        (Coding::Transparent, Fields::Unnamed(fields)) if fields.unnamed.len() == 1 => {
            quote!(Self::#name(inner))
        }
        (Coding::From(field), _) => quote!(Self::#name { #field: inner, .. }),
        (Coding::Transparent, _) => {
            return Err(Error::new_spanned(
                variant,
                "a transparent variant has one field",
            ));
        }
    };
    Ok(Arm {
        pattern,
        coding,
        message: message(&variant.attrs),
    })
}

fn coding(attributes: &[Attribute], at: &impl quote::ToTokens) -> Result<Coding> {
    let mut found = attributes.iter().filter(|a| a.path().is_ident("coded"));
    match (found.next(), found.next()) {
        (Some(attribute), None) => attribute.parse_args(),
        _ => Err(Error::new_spanned(
            at,
            "expected one `#[coded(\"CODE\", remedy = \"…\")]` or `#[coded(transparent)]`",
        )),
    }
}

/// The first paragraph of the documentation, without its full stop.
fn message(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        match &pair.value {
            syn::Expr::Lit(syn::ExprLit {
                lit: syn::Lit::Str(text),
                ..
            }) if pair.path.is_ident("doc") => Some(text.value().trim().to_owned()),
            _ => None,
        }
    });
    let paragraph: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    paragraph.join(" ").trim_end_matches('.').to_owned()
}
